package outcome

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
)

// CommandLine is line, a program and its arguments, as a reader on any machine types it: the
// program without its directory, the directories of this machine as the variables that hold them
// everywhere ($GOMODCACHE, $PWD, $HOME).
func CommandLine(line []string) string {
	words := append([]string{filepath.Base(line[0])}, line[1:]...)
	return places().Replace(strings.Join(words, " "))
}

// places replaces the directories of this machine, the innermost first: the module cache usually
// lies in the home directory.
func places() *strings.Replacer {
	var pairs []string
	for _, place := range []struct{ name, dir string }{
		{"$GOMODCACHE", moduleCache()}, {"$PWD", workingDirectory()}, {"$HOME", homeDirectory()},
	} {
		if place.dir != "" && place.dir != "/" {
			pairs = append(pairs, place.dir+"/", place.name+"/")
		}
	}
	return strings.NewReplacer(pairs...)
}

// moduleCache is where Go keeps modules, by the rules of `go help environment`.
func moduleCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	first, _, _ := strings.Cut(build.Default.GOPATH, string(filepath.ListSeparator))
	if first == "" {
		return ""
	}
	return filepath.Join(first, "pkg", "mod")
}

func workingDirectory() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	return dir
}

func homeDirectory() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}
