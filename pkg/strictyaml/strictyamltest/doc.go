// Package strictyamltest holds what a file format's tests share: files under testdata, each beside
// a golden file that says what it means, or in which words it is refused. Run the tests with
// -update to accept what they got.
package strictyamltest
