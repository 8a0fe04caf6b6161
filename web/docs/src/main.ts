import SwaggerUIBundle from 'swagger-ui-dist/swagger-ui-bundle.js'
import 'swagger-ui-dist/swagger-ui.css'
import './page.css'

const dark = matchMedia('(prefers-color-scheme: dark)')
const followTheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', followTheme)
followTheme()

SwaggerUIBundle({
  domNode: document.getElementById('api'),
  url: '/api/openapi.json',
  deepLinking: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  // A token that was typed in is gone with the page.
  persistAuthorization: false,
  // The validator is a service elsewhere; nothing is sent there.
  validatorUrl: null,
})
