import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'

const source = readFileSync(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

/** Fails with what axe finds serious or critical on the page as it stands, but for what lies in `exclude`. */
export async function assertAccessible(page, { exclude } = {}) {
  // A colour that is still fading would be measured half way.
  await page.evaluate(() =>
    Promise.all(
      document
        .getAnimations()
        .filter(({ effect }) => effect.getComputedTiming().endTime !== Infinity)
        .map(({ finished }) => finished.catch(() => {})),
    ),
  )
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(source)
  const { violations } = await page.evaluate(
    (hidden) => globalThis.axe.run({ include: document, exclude: hidden ? [hidden] : [] }, { resultTypes: ['violations'] }),
    exclude,
  )
  const grave = violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`)
  assert.deepEqual(grave, [])
}
