// Package app is the command berth, for its own main and for programs that add plugins:
//
//	func main() { os.Exit(app.Main(app.WithPlugin("Licences", licences.New))) }
//
// It only connects components: it reads flags and files, opens the stores, builds each service's Config and Deps, and
// runs the services under one errgroup. Every mistake in the command line that can be detected is reported before
// anything is started.
//
// Start reading at Main and newRootCommand, then options.run.
package app
