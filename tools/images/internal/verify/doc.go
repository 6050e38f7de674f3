// Package verify reads an image layout back and checks its promised properties:
//
//   - the layout is valid, blob by blob, and its index names every architecture;
//   - an image has one layer with the program, a password file and nothing else: no shell, no interpreter, nothing
//     that is setuid or writable;
//   - it runs as a number that is not root, and its labels name the version;
//   - the program is static and made for the image's architecture;
//   - its bill of materials is attached to it and lists the modules the program contains;
//   - the program of this machine's architecture runs in the image's file system as the image's user, prints its
//     version, and refuses a start without stores in one line.
//
// Start reading at Layout.
package verify
