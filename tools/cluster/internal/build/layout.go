package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Layout says where the modules are and where programs go.
type Layout struct {
	// Root is the top folder of the repository.
	Root string
}

// FindLayout finds the repository around the running program (an installed
// one lies in .build/bin) or, failing that, around the working directory.
func FindLayout() (Layout, error) {
	var starts []string
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "tools", "cluster", "go.mod")); err == nil {
				return Layout{Root: dir}, nil
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return Layout{}, errors.New("no tools/cluster/go.mod in a parent of the program or the working directory: " +
		"run this in a checkout of Berth")
}

// ModuleDir is the folder of a target's module.
func (l Layout) ModuleDir(t Target) string {
	return filepath.Join(l.Root, "tools", "cluster", filepath.FromSlash(t.Module))
}

// BinDir is the folder that programs are built into.
func (l Layout) BinDir() string { return filepath.Join(l.Root, ".build", "bin") }

// Stamp is the file that records what a program was last built from.
func (l Layout) Stamp(t Target) string {
	return filepath.Join(l.Root, ".build", "stamps", t.Name)
}

// Program returns the path of a built program, or an error that explains how to build it.
func (l Layout) Program(name string) (string, error) {
	path := filepath.Join(l.BinDir(), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built: run `%s build %s` first",
			name, filepath.Join(l.BinDir(), "cluster"), name)
	}
	return path, nil
}
