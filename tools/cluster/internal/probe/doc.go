// Package probe asks a starting server over HTTP whether it answers yet.
package probe
