import { Locale as VantLocale } from 'vant'
import vantEnglish from 'vant/es/locale/lang/en-US'
import vantChinese from 'vant/es/locale/lang/zh-CN'
import { defineStore } from 'pinia'
import { ref, watchEffect } from 'vue'
import { i18n, languages, type Language } from './i18n'

export const themes = ['auto', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

function stored<T extends string>(name: string, allowed: readonly T[]): T | undefined {
  try {
    return allowed.find((value) => value === localStorage.getItem(name))
  } catch {
    return undefined
  }
}

function store(name: string, value: string) {
  try {
    localStorage.setItem(name, value)
  } catch {
    // Private mode: the choice lasts as long as the page.
  }
}

/** Language and theme: the address's ?lang= wins, then what was chosen before, then Chinese and the system's theme. */
export const usePreferences = defineStore('preferences', () => {
  const wanted = new URLSearchParams(location.search).get('lang')
  const language = ref<Language>(
    languages.find((each) => each === wanted) ?? stored('tandian.language', languages) ?? 'zh-CN',
  )
  const theme = ref<Theme>(stored('tandian.theme', themes) ?? 'auto')
  const systemDark = matchMedia('(prefers-color-scheme: dark)')
  const dark = ref(systemDark.matches)
  systemDark.addEventListener('change', () => (dark.value = systemDark.matches))

  watchEffect(() => {
    i18n.global.locale.value = language.value
    document.documentElement.lang = language.value
    if (language.value === 'en') VantLocale.use('en-US', vantEnglish)
    else VantLocale.use('zh-CN', vantChinese)
  })
  watchEffect(() => {
    const isDark = theme.value === 'dark' || (theme.value === 'auto' && dark.value)
    document.documentElement.classList.toggle('van-theme-dark', isDark)
    document.documentElement.style.colorScheme = isDark ? 'dark' : 'light'
  })

  function setLanguage(value: Language) {
    language.value = value
    store('tandian.language', value)
  }
  function setTheme(value: Theme) {
    theme.value = value
    store('tandian.theme', value)
  }
  return { language, theme, setLanguage, setTheme }
})
