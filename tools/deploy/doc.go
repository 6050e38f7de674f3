// Deploy keeps the manifests of deploy/ consistent: the Helm chart is the single source of values, and deploy/k8s is
// rendered from it. docs/values.md lists the values.
//
//	GOWORK=off go run -C tools/deploy . generate --root DIR [--check]
//	GOWORK=off go run -C tools/deploy . render --root DIR --chart|--kustomize NAME
//
// `generate` writes deploy/k8s, the files of deploy/monitoring and docs/values.md from the chart, or with --check
// lists the stale ones. `render` prints the objects of one variant as YAML, by either way. The tests compare both
// ways for every variant, object for object; with the build tag `cluster` they also have a real API server check
// every object.
//
// The module is outside the workspace: no other module has its dependencies.
//
// Start reading at package render.
package main
