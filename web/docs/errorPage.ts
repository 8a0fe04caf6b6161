/**
 * errorPage puts docs/errors.md into the page: what stands above the list of
 * codes as HTML at <!-- kinds -->, the list itself at <!-- codes -->, each row
 * with its code as id, because the `type` of a problem document points there.
 */
export function errorPage(html: string, markdown: string): string {
  const [above, below] = markdown.split('<!-- generated -->')
  const codes = rows(below ?? '')
  if (codes.length === 0) throw new Error('docs/errors.md: no table of codes')
  const list = codes.map(
    ([code, status, zh, en]) =>
      `<tr id="${plain(code)}"><td><a href="#${plain(code)}">${inline(code)}</a></td><td>${inline(status)}</td>` +
      `<td lang="zh-CN">${inline(zh)}</td><td lang="en">${inline(en)}</td></tr>`,
  )
  const kinds = rows(above!).map((cells) => `<tr>${cells.map((cell) => `<td>${inline(cell)}</td>`).join('')}</tr>`)
  return html.replace('<!-- kinds -->', kinds.join('\n')).replace('<!-- codes -->', list.join('\n'))
}

/** rows are the cells of a Markdown table without its head. */
function rows(markdown: string): string[][] {
  const lines = markdown.split('\n').filter((line) => line.startsWith('|'))
  const head = lines.findIndex((line) => /^\|[\s:|-]+\|$/.test(line))
  return lines.slice(head + 1).map((line) =>
    line
      .slice(1, line.lastIndexOf('|'))
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|')),
  )
}

function plain(cell: string | undefined): string {
  return escape((cell ?? '').replaceAll('`', ''))
}

function inline(cell: string | undefined): string {
  return escape(cell ?? '').replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
