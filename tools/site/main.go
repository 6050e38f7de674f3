package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
)

func main() {
	if err := mainErr(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func mainErr(args []string) error {
	set := flag.NewFlagSet("site", flag.ContinueOnError)
	dir := set.String("site", "", "directory of the site that Hugo built")
	base := set.String("base", "", "URL for which the site was built, with a trailing slash")
	root := set.String("root", "", "checkout with the files that links to the repository refer to")
	repository := set.String("repository", "https://github.com/berth-scheduler/berth", "URL of the repository")
	if err := set.Parse(args); err != nil {
		return err
	}
	parsed, err := url.Parse(*base)
	if err != nil || !parsed.IsAbs() || !strings.HasSuffix(parsed.Path, "/") {
		return fmt.Errorf("--base: %q: want an absolute URL with a trailing slash", *base)
	}
	site := Site{Files: os.DirFS(*dir), Base: parsed, Root: os.DirFS(*root), Repository: *repository}
	problems, err := site.Check()
	if err != nil {
		return fmt.Errorf("--site: %q: %w", *dir, err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	return nil
}
