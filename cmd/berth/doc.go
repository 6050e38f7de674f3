// Command berth is all of Berth in one binary: `berth up` runs all four services in one process, `berth run
// <service>` runs one of them for production, and the other commands are for operators. All of it is in package app,
// so that a program with custom plugins can be the same.
package main
