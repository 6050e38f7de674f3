// Package poll runs stand-ins for drivers of volumes or devices: it compares the whole cluster with the desired
// state, again and again.
package poll
