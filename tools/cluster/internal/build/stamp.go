package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fingerprint digests everything that decides a target's bytes: the module's
// pins, its own sources if it has any and those of modules that it uses, the flags, and the Go release and
// platform. Paths enter relative to the module, so a moved checkout keeps its
// stamps.
func fingerprint(moduleDir string, t Target, goIdentity string) (string, error) {
	sum := sha256.New()
	if t.Tags != "" {
		fmt.Fprintf(sum, "tags %s\n", t.Tags)
	}
	fmt.Fprintf(sum, "package %s\nldflags %s\nenv %s\ngo %s\n",
		t.Package, t.LDFlags, strings.Join(buildEnv, " "), goIdentity)
	for _, folder := range append([]string{"."}, t.Uses...) {
		if err := digestFiles(sum, moduleDir, folder, t); err != nil {
			return "", fmt.Errorf("digest the inputs of %s: %w", t.Name, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// digestFiles adds the files of the module in a folder, which is relative to the target's module.
func digestFiles(sum io.Writer, moduleDir, folder string, t Target) error {
	top := filepath.Join(moduleDir, filepath.FromSlash(folder))
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipForeign(top, path)
		}
		if !decidesBytes(t, entry.Name()) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(moduleDir, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "file %s %x\n", filepath.ToSlash(rel), sha256.Sum256(content))
		return err
	})
}

// skipForeign keeps the walk inside one module.
func skipForeign(moduleDir, path string) error {
	if path == moduleDir {
		return nil
	}
	if filepath.Base(path) == "testdata" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func decidesBytes(t Target, name string) bool {
	if name == "go.mod" || name == "go.sum" {
		return true
	}
	return t.Own && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// upToDate reports whether the program exists and was built from this digest.
// The size guards against an output file that something else cut short.
func (l Layout) upToDate(t Target, digest string) bool {
	info, err := os.Stat(filepath.Join(l.BinDir(), t.Name))
	if err != nil {
		return false
	}
	recorded, err := os.ReadFile(l.Stamp(t))
	return err == nil && string(recorded) == stampText(digest, info.Size())
}

func stampText(digest string, size int64) string {
	return fmt.Sprintf("%s %d\n", digest, size)
}
