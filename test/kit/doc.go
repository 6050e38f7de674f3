// Package kit has what tests with a local cluster share: how they find the programs under test, where they write, and
// how they stop what they have started.
package kit
