// Package manifest reads the pods and nodes that a manifest for kubectl describes, including the pods that its
// workloads would create. It makes no request to an API server, so whatever admission would add is missing.
//
// Start reading at Read.
package manifest
