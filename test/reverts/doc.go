// Package reverts takes fixes away. docs/bugs.md says of each bug which test fails without its fix; here that is
// tried, for some of them, one fix at a time.
//
// An entry names a bug and changes the text of a file or two, so that the code does what it did before the fix. The go
// command compiles the changed text in place of the files (an overlay), and the tree stays as it is. The tests of the
// entry pass without the change. With it, each fails: a change that does not compile, and a test that runs out of time,
// are failures of the entry.
//
// An entry takes away only the fix, and says in one sentence what is gone. When the code around a fix changes, its
// text is no longer found, and the entry is stale: write it again.
//
// Start reading at revert. `make reverts` runs it; `make unit` looks only for stale entries.
package reverts
