// Package manifest reads the pods and nodes that a manifest for kubectl describes, including the pods that its
// workloads would create, for `berth simulate`. It makes no request to an API server, so whatever admission would add
// is missing: defaults, the priority of a class (which package simulate fills in), injected containers.
//
// A workload's pods are named OWNER-0, OWNER-1 and so on, and are controlled by the workload itself: a Deployment's
// pods lack the ReplicaSet between them, which no rule of placement needs.
//
// Start reading at Read.
package manifest
