// Package manifest reads the pods and nodes that a file for kubectl describes, those that a workload
// in it would make among them. It asks no API server: what admission would add is not there.
//
// Start reading at Read.
package manifest
