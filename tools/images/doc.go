// Images builds Berth's container images and checks them, without a container runtime.
//
//	GOWORK=off go run -C tools/images . build  --root DIR --out DIR --version V --created SECONDS
//	GOWORK=off go run -C tools/images . verify --out DIR
//	GOWORK=off go run -C tools/images . same --root DIR --out DIR --version V --created SECONDS
//
// `build` writes one OCI image layout with an index of one image for each architecture, and next to it a CycloneDX
// bill of materials for each, also attached to its image as a referrer. An image is a static program, a password file
// with one unprivileged user, and nothing else. `verify` reads the layout as a registry client would, checks every
// promise of package verify, and runs the program of the machine's own architecture in the image's file system as its
// user. `same` builds again from a copy of the tree in another folder and compares digests.
//
// The module is outside the workspace: no other module has its dependencies.
//
// Start reading at package oci, function Write.
package main
