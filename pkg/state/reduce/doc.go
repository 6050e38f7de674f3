// Package reduce makes an object that is too large for the log small enough (Reduce), in such a way that every reader
// can still use it without causing harm.
package reduce
