package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// page is the relevant content of one HTML file.
type page struct {
	// ids are the anchors.
	ids map[string]bool
	// refs are the references to other files, in the page's order.
	refs []reference
	// policy reports whether it has a Content-Security-Policy.
	policy bool
}

// reference is a link to a page, a file that a browser loads with the page, or the element that a button opens.
type reference struct {
	target string
	// loads reports whether the browser loads it without being asked.
	loads bool
	// menu reports whether it is an entry of the menu.
	menu bool
}

// readPages parses all HTML files, by their names.
func readPages(files fs.FS) (map[string]*page, error) {
	pages := map[string]*page{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		root, err := html.Parse(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p := &page{ids: map[string]bool{}}
		p.read(root, false)
		pages[name] = p
		return nil
	})
	return pages, err
}

// read adds what an element and those below it have.
func (p *page) read(node *html.Node, menu bool) {
	if node.Type == html.ElementNode {
		menu = menu || attribute(node, "id") == "menu"
		p.element(node, menu)
	}
	for child := range node.ChildNodes() {
		p.read(child, menu)
	}
}

func (p *page) element(node *html.Node, menu bool) {
	if id := attribute(node, "id"); id != "" {
		p.ids[id] = true
	}
	switch node.DataAtom {
	case atom.A:
		if target := attribute(node, "href"); target != "" {
			p.refs = append(p.refs, reference{target: target, menu: menu})
		}
	case atom.Link:
		// What is canonical is named, not loaded.
		named := attribute(node, "rel") == "canonical"
		p.refs = append(p.refs, reference{target: attribute(node, "href"), loads: !named})
	case atom.Img, atom.Script, atom.Iframe:
		if target := attribute(node, "src"); target != "" {
			p.refs = append(p.refs, reference{target: target, loads: true})
		}
	case atom.Button:
		if opened := attribute(node, "popovertarget"); opened != "" {
			p.refs = append(p.refs, reference{target: "#" + opened})
		}
	case atom.Meta:
		p.policy = p.policy || attribute(node, "http-equiv") == "Content-Security-Policy"
	}
}

// attribute is the value of an element's attribute, empty without it.
func attribute(node *html.Node, name string) string {
	for _, a := range node.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
