import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig, type Plugin } from 'vite'
import { errorPage } from './errorPage.ts'

const root = import.meta.dirname

/** Fills errors.html from docs/errors.md, which is written from the code. */
function errorReference(): Plugin {
  return {
    name: 'error-reference',
    transformIndexHtml: {
      order: 'pre',
      handler: (html, { path }) =>
        path === '/errors.html' ? errorPage(html, readFileSync(join(root, '../../docs/errors.md'), 'utf8')) : html,
    },
  }
}

/** The licence of Swagger UI asks for its notice to travel with it. */
function notices(): Plugin {
  return {
    name: 'notices',
    writeBundle({ dir }) {
      const from = join(root, '../node_modules/swagger-ui-dist')
      copyFileSync(join(from, 'NOTICE'), join(dir!, 'NOTICE.txt'))
      copyFileSync(join(from, 'swagger-ui-bundle.js.LICENSE.txt'), join(dir!, 'LICENSES.txt'))
    },
  }
}

export default defineConfig({
  root,
  base: '/docs/',
  cacheDir: '../node_modules/.vite',
  plugins: [errorReference(), notices()],
  build: {
    outDir: '../dist/docs',
    emptyOutDir: true,
    reportCompressedSize: false,
    // Swagger UI is one file of 1.7 MB.
    chunkSizeWarningLimit: 2_000,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: [join(root, 'index.html'), join(root, 'errors.html')] },
  },
})
