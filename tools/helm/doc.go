// Package helm pins Helm, which tests run to install and to upgrade the chart as a user does. The Makefile builds it
// from source.
package helm
