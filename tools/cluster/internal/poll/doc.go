// Package poll runs what stands in for a driver of volumes or devices: it compares the whole cluster with what should
// be there, again and again.
package poll
