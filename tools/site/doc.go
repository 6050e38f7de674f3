// Command site checks the documentation site that Hugo built from the Markdown files:
//
//	go run . --site ../../.build/site --base https://example.com/berth/ --root ../..
//
// Every link within the site leads to a page or a file of it and, with an anchor, to an element of that page. Links
// to the repository on GitHub name files that the checkout has. The menu reaches every page. Nothing is loaded from
// other hosts: no page names such a file, and each has a policy by which browsers refuse one.
//
// The folder is also the site's source: hugo.toml selects the files that become pages, layouts/ and assets/ define
// how they look. `make site` builds and checks, `make site-serve` serves the pages while they change.
//
// Start reading at Site.Check.
package main
