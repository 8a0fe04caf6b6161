import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    projects: ['shop/vite.config.ts', { test: { name: 'docs', root: 'docs', include: ['*.test.ts'] } }],
  },
})
