import { createRouter, createWebHistory, START_LOCATION } from 'vue-router'
import HomePage from './pages/HomePage.vue'

declare module 'vue-router' {
  interface RouteMeta {
    /** Key below `title.` for the document title. */
    title: string
    /** The page shows the tab bar. */
    tabs?: boolean
    /** Without a session the page leads to /login and back. */
    private?: boolean
  }
}

export const router = createRouter({
  history: createWebHistory(),
  routes: [
    { path: '/', component: HomePage, meta: { title: 'home', tabs: true } },
    { path: '/shop/:id', component: () => import('./pages/ShopPage.vue'), props: true, meta: { title: 'shop' } },
    { path: '/sale/:id', component: () => import('./pages/SalePage.vue'), props: true, meta: { title: 'sale' } },
    {
      path: '/grab/:orderId',
      component: () => import('./pages/GrabPage.vue'),
      props: true,
      meta: { title: 'grab', private: true },
    },
    {
      path: '/pay/:orderId',
      component: () => import('./pages/PayPage.vue'),
      props: true,
      meta: { title: 'pay', private: true },
    },
    { path: '/orders', component: () => import('./pages/OrdersPage.vue'), meta: { title: 'orders', private: true } },
    {
      path: '/order/:orderId',
      component: () => import('./pages/OrderPage.vue'),
      props: true,
      meta: { title: 'order', private: true },
    },
    { path: '/verify', component: () => import('./pages/VerifyPage.vue'), meta: { title: 'verify', private: true } },
    { path: '/login', component: () => import('./pages/LoginPage.vue'), meta: { title: 'login' } },
    { path: '/me', component: () => import('./pages/MePage.vue'), meta: { title: 'me', tabs: true } },
    { path: '/404', component: () => import('./pages/MissingPage.vue'), meta: { title: 'missing' } },
    { path: '/:rest(.*)*', component: () => import('./pages/MissingPage.vue'), meta: { title: 'missing' } },
  ],
  scrollBehavior: (_to, _from, saved) => saved ?? { top: 0 },
})

// After an update the old page asks for chunks that are gone; the new index.html knows the
// new ones. A page that has only just loaded is that new one, and loading it again won't help.
router.onError((error, to, from) => {
  const chunkMissing = /dynamically imported module|module script/i.test(String(error))
  if (chunkMissing && from !== START_LOCATION) location.assign(to.fullPath)
})

/** returnPath accepts only addresses within this app, so that a link to /login can't send people elsewhere. */
export function returnPath(wanted: unknown): string {
  return typeof wanted === 'string' && /^\/(?![/\\])/.test(wanted) ? wanted : '/'
}
