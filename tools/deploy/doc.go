// Deploy keeps the manifests of deploy/ together: the Helm chart is the one source of
// values, and deploy/k8s is what it gives. docs/values.md lists the values.
//
//	GOWORK=off go run -C tools/deploy . generate --root DIR [--check]
//	GOWORK=off go run -C tools/deploy . render --root DIR --chart|--kustomize NAME
//
// `generate` writes deploy/k8s, the files of deploy/monitoring and docs/values.md from the
// chart, or with --check says which are stale.
// `render` prints the objects of one variant as YAML, by either way. The tests compare both
// ways for every variant, object for object; with the build tag `cluster` they also have a
// real API server check every object.
//
// The module stands outside the workspace: its dependencies are nobody else's.
//
// Start reading at package render.
package main
