// Package strictyamltest holds the code that the tests of file formats share: files under testdata, each next to a
// golden file with the decoded meaning, or the words of the refusal. Run the tests with -update to accept the results.
package strictyamltest
