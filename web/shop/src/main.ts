import { createPinia } from 'pinia'
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
const session = useSession()
void session.load()
keepClock()

router.beforeEach((to) => {
  if (to.meta.private && session.state === 'anonymous') return { path: '/login', query: { to: to.fullPath } }
})

watch(
  () => [router.currentRoute.value.meta.title, i18n.global.locale.value],
  ([title]) => {
    const { t } = i18n.global
    document.title = title ? `${t(`title.${title}`)} · ${t('app.name')}` : t('app.name')
  },
)

// The session may turn out to be missing only after a private page is up.
watch(
  () => session.state,
  (state) => {
    const route = router.currentRoute.value
    if (state === 'anonymous' && route.meta.private) void router.replace({ path: '/login', query: { to: route.fullPath } })
  },
)

app.use(router).mount('#app')
