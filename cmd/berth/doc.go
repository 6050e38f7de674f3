// Command berth is the whole of Berth in one binary: `berth up` runs all four services in
// one process, `berth run <service>` runs one of them for production, and the other
// commands are the operator's.
//
// This package only wires: it reads flags and files, opens the stores, builds each
// service's Config and Deps, and runs them under one errgroup. Everything that can be
// wrong with the command line is found before anything is started.
//
// Start reading at newRootCommand, then run.
package main
