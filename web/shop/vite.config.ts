import vue from '@vitejs/plugin-vue'
import { defineConfig } from 'vitest/config'
import type { Plugin } from 'vite'

/**
 * Vant's icon font lists a CDN copy behind the inlined one. No browser would
 * ask for it, but nothing the product ships may name a foreign host.
 */
function dropForeignFont(): Plugin {
  return {
    name: 'drop-foreign-font',
    enforce: 'pre',
    transform(code, id) {
      if (!id.includes('/vant/') || !id.endsWith('.css')) return null
      return code.replace(/,\s*url\(["']?(?:https?:)?\/\/[^)]*\)\s*format\(["']\w+["']\)/g, '')
    },
  }
}

export default defineConfig({
  root: import.meta.dirname,
  base: '/',
  cacheDir: '../node_modules/.vite',
  plugins: [dropForeignFont(), vue()],
  define: {
    __VUE_OPTIONS_API__: 'false',
    __VUE_I18N_FULL_INSTALL__: 'false',
    __VUE_I18N_LEGACY_API__: 'false',
    __INTLIFY_PROD_DEVTOOLS__: 'false',
  },
  build: {
    outDir: '../dist/shop',
    emptyOutDir: true,
    // The Go handler compresses once at start; listing sizes here costs a second per build.
    reportCompressedSize: false,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // What changes with a Vue upgrade only is cached apart from what changes with the app.
        codeSplitting: { groups: [{ name: 'vue', test: /node_modules\/(@vue|vue|vue-router|vue-i18n|@intlify|pinia)\// }] },
      },
    },
  },
  server: {
    proxy: Object.fromEntries(
      ['/api', '/pictures', '/docs', '/sandbox'].map((path) => [path, process.env.TANDIAN_URL ?? 'http://127.0.0.1:8080']),
    ),
  },
  test: {
    environment: 'node',
    include: ['src/**/*.test.ts'],
  },
})
