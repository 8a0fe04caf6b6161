import { createPinia } from 'pinia'
import { setToastDefaultOptions } from 'vant'
import { createApp, watch } from 'vue'
import './vantStyle'
import './style.css'
import App from './App.vue'
import { keepClock } from './clock'
import { i18n } from './i18n'
import { usePreferences } from './preferences'
import { router } from './router'
import { useSession } from './session'

const app = createApp(App).use(createPinia()).use(i18n)

usePreferences()
setToastDefaultOptions({ position: 'bottom' })
const session = useSession()
void session.load()
keepClock()

watch(
  () => [router.currentRoute.value.meta.title, i18n.global.locale.value],
  ([title]) => {
    const { t } = i18n.global
    document.title = title ? `${t(`title.${title}`)} · ${t('app.name')}` : t('app.name')
  },
)

// Not a guard: whether somebody is signed in may become known only after the page is up.
watch([() => session.state, router.currentRoute], ([state, route]) => {
  if (state === 'anonymous' && route.meta.private) void router.replace({ path: '/login', query: { to: route.fullPath } })
})

app.use(router).mount('#app')
