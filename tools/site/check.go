package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// home is the page whose menu is checked: all pages have the same. notFound is served for pages that are not there,
// and no menu has it.
const home, notFound = "index.html", "404.html"

// Site is a site that was built.
type Site struct {
	// Files are the site's.
	Files fs.FS
	// Base is the URL of the site's top, with a slash at its end.
	Base *url.URL
	// Root is the checkout.
	Root fs.FS
	// Repository is the repository's URL on GitHub.
	Repository string
}

// Check returns the problems found, sorted by page. An error is a site that cannot be read.
func (s Site) Check() ([]string, error) {
	pages, err := readPages(s.Files)
	if err != nil {
		return nil, err
	}
	if pages[home] == nil {
		return nil, errors.New("no index.html: want the directory of a built site")
	}
	var problems []string
	menu := map[string]bool{notFound: true}
	for name, page := range pages {
		if !page.policy {
			problems = append(problems, name+": no Content-Security-Policy")
		}
		for _, ref := range page.refs {
			to, problem := s.follow(pages, name, ref)
			if problem != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: %s", name, ref.target, problem))
			}
			if name == home && ref.menu {
				menu[to] = true
			}
		}
	}
	for name := range pages {
		if !menu[name] {
			problems = append(problems, name+": not in the menu: want it in docs/README.md")
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems), nil
}

// follow returns the file of the site that a reference leads to, empty for one elsewhere, and its problem.
func (s Site) follow(pages map[string]*page, from string, ref reference) (to, problem string) {
	parsed, err := url.Parse(ref.target)
	if err != nil {
		return "", err.Error()
	}
	at := s.Base.ResolveReference(&url.URL{Path: strings.TrimSuffix(from, home)}).ResolveReference(parsed)
	switch {
	case at.Scheme != "http" && at.Scheme != "https":
		return "", ""
	case at.Host != s.Base.Host && ref.loads:
		return "", "loaded from another host"
	case at.Host != s.Base.Host:
		return "", s.followToRepository(ref.target)
	}
	inside, ok := strings.CutPrefix(at.Path, s.Base.Path)
	if !ok {
		return "", "outside of the site: want a path under " + s.Base.Path
	}
	if inside == "" || strings.HasSuffix(inside, "/") {
		inside += home
	}
	if info, err := fs.Stat(s.Files, inside); err != nil || info.IsDir() {
		return "", "no such file: " + inside
	}
	if page := pages[inside]; page != nil && at.Fragment != "" && !page.ids[at.Fragment] {
		return inside, fmt.Sprintf("no element #%s in %s", at.Fragment, inside)
	}
	return inside, ""
}

// followToRepository returns the problem of a link to another host: a link to a file of the repository that the
// checkout does not have. Other hosts are not contacted.
func (s Site) followToRepository(target string) (problem string) {
	rest, ok := strings.CutPrefix(target, s.Repository+"/")
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) < 3 || parts[0] != "blob" && parts[0] != "tree" {
		return ""
	}
	file, _, _ := strings.Cut(path.Clean(parts[2]), "#")
	if _, err := fs.Stat(s.Root, file); err != nil {
		return "no such file in the repository: " + file
	}
	return ""
}
