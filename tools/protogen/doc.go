// Protogen writes the Go code of every .proto file under pkg/ next to it, and with --check lists the stale files.
//
// It runs the protocompile parser and protoc-gen-go in one process, both at the versions of its go.mod, so that the
// generated code depends on nothing installed on the machine. It is a module of its own, outside the workspace: no
// other module has its dependencies.
//
//	GOWORK=off go run -C tools/protogen . [--check] [--root DIR]
//
// Start reading at run.
package main
