import { describe, expect, it } from 'vitest'
import { errorPage } from './errorPage'

const markdown = `# Errors

| kind | status | what to do |
|---|---|---|
| Conflict | 409 | look at \`Allow\` & wait |

## Codes

<!-- generated -->

| code | status | 中文 | English |
|---|---|---|---|
| \`sale.sold_out\` | 409 | 已抢光。 | Sold out <for now>. |

<!-- end -->
`

describe('the error page', () => {
  it('gives each code a row that can be linked to', () => {
    expect(errorPage('<!-- codes -->', markdown)).toBe(
      '<tr id="sale.sold_out"><td><a href="#sale.sold_out"><code>sale.sold_out</code></a></td><td>409</td>' +
        '<td lang="zh-CN">已抢光。</td><td lang="en">Sold out &lt;for now>.</td></tr>',
    )
  })

  it('keeps the kinds apart from the codes', () => {
    expect(errorPage('<!-- kinds -->', markdown)).toBe(
      '<tr><td>Conflict</td><td>409</td><td>look at <code>Allow</code> &amp; wait</td></tr>',
    )
  })

  it('fails the build when there is nothing to show', () => {
    expect(() => errorPage('<!-- codes -->', '# Errors')).toThrow('no table')
  })
})
