// Command berth is the whole of Berth in one binary: `berth up` runs all four services in
// one process, `berth run <service>` runs one of them for production, and the other
// commands are the operator's. All of it is in package app, so that a program with plugins
// of one's own can be the same.
package main
