// Command berth is all of Berth in one binary: `berth up` runs all four services in one process, `berth run <service>`
// runs one of them for production, and the other commands are for operators. All of it is in package app, so that a
// program with custom plugins can be the same (cmd/berth/example).
//
// The packages below internal are each one job of the binary: embedded (the stores of `berth up`), serve (HTTP),
// depend (are the dependencies there?), reach (port-forwarding to an installation), inquire (questions to running
// services), past (logs and bundles, read from the beginning), record (histories for the audit), pki (certificates)
// and manifest (pods from files).
package main
