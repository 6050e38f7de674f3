// Package oci makes images that depend on nothing but their input: the same program, version and time give the same
// digest on every machine and in every folder.
//
// Everything that could break that is fixed here: file times are the image's time, owners are numbers, entries are in
// a fixed order, compression is the library's own at one level, and the serial number of a bill of materials is
// derived from its content.
//
// Start reading at Write.
package oci
