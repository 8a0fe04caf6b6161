declare module 'swagger-ui-dist/swagger-ui-bundle.js' {
  /** The options used here; see swagger.io, "Swagger UI configuration". */
  export default function SwaggerUIBundle(options: {
    domNode: HTMLElement | null
    url: string
    deepLinking: boolean
    displayRequestDuration: boolean
    defaultModelsExpandDepth: number
    persistAuthorization: boolean
    validatorUrl: null
  }): unknown
}
