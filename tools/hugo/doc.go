// Package hugo pins Hugo, which builds the documentation site. The Makefile builds it from source, without cgo.
package hugo
