// Package web serves the web apps. Their sources (shop/, the shopper app, and
// docs/, the API reference) and their build (dist/, committed, byte-identical on
// rebuild) lie next to this file, so that `go run` and `go install` give the real
// pages without Node. The build tag noweb leaves the apps out.
package web
