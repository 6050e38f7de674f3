// Package recording is the file format of a history.
package recording
