// Package e2e brings real clusters up and down with the built driver.
//
// Its tests carry the build tag "cluster" because they need the programs in
// .build/bin; without a program they fail, they do not skip. The tests start
// the driver as other modules do, as a program with JSON on its stdout.
package e2e
