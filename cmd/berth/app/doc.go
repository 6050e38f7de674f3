// Package app is the command berth, for its own main and for programs that add plugins:
//
//	func main() { os.Exit(app.Main(app.WithPlugin("Licences", licences.New))) }
//
// It only wires: it reads flags and files, opens the stores, builds each service's Config and
// Deps, and runs them under one errgroup. Everything that can be wrong with the command line
// is found before anything is started.
//
// Start reading at Main and newRootCommand, then run.
package app
