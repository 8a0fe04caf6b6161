import { createI18n } from 'vue-i18n'
import en from './en'
import zhCN from './zh-CN'

export const languages = ['zh-CN', 'en'] as const
export type Language = (typeof languages)[number]

export const i18n = createI18n({
  legacy: false,
  locale: 'zh-CN' as Language,
  fallbackLocale: 'zh-CN',
  messages: { 'zh-CN': zhCN, en },
})
