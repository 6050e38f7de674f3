package verify

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-scheduler/berth/tools/images/internal/oci"
)

// file is one entry of a layer.
type file struct {
	mode    fs.FileMode
	uid     int
	content []byte
}

// unpack reads a layer into memory; paths have no slash at their ends.
func unpack(layer v1.Layer) (map[string]file, error) {
	reader, err := layer.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }() // it was read to its end, or the error is returned
	files := map[string]file{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("layer: %w", err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("layer: %s: %w", header.Name, err)
		}
		info := header.FileInfo()
		files[string(bytes.TrimSuffix([]byte(header.Name), []byte("/")))] = file{info.Mode(), header.Uid, content}
	}
}

// contents is everything that an image may hold.
var contents = []string{"berth", "etc", "etc/passwd"}

func checkFiles(files map[string]file) error {
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, contents) {
		return fmt.Errorf("files %v: want %v and nothing else", got, contents)
	}
	for name, f := range files {
		const setID = fs.ModeSetuid | fs.ModeSetgid
		writable := f.mode.Perm()&0o022 != 0
		if f.mode&setID != 0 || writable || f.uid != 0 {
			return fmt.Errorf("%s: mode %s, owner %d: "+
				"want owner root, not writable by others, no setuid or setgid", name, f.mode, f.uid)
		}
	}
	return nil
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// checkProgram: a program that names an interpreter or a shared library needs files that
// the image does not have.
func checkProgram(content []byte, arch string) error {
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if program.Machine != machines[arch] {
		return fmt.Errorf("program for %s: want %s", program.Machine, machines[arch])
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("program is not static: it has a segment %s", p.Type)
		}
	}
	return nil
}

// checkBOM compares the attached bill of materials with what the program says of itself.
func checkBOM(artifact v1.Image, program []byte) (modules int, err error) {
	if artifact == nil {
		return 0, errors.New("no bill of materials is attached")
	}
	layers, err := artifact.Layers()
	if err != nil {
		return 0, err
	}
	if len(layers) != 1 {
		return 0, fmt.Errorf("bill of materials: %d layers: want 1", len(layers))
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != oci.BOMType {
		return 0, fmt.Errorf("bill of materials: media type %s (%w): want %s", kind, err, oci.BOMType)
	}
	content, err := layers[0].Compressed()
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }() // only read
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(content, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return 0, fmt.Errorf("bill of materials: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return 0, err
	}
	listed := map[string]bool{}
	for _, c := range *bom.Components {
		listed[c.Name] = true
	}
	for _, m := range info.Deps {
		name := m.Path
		if m.Replace != nil && m.Replace.Version != "" {
			name = m.Replace.Path
		}
		if !listed[name] {
			return 0, fmt.Errorf("bill of materials: %s is in the program but not listed", name)
		}
	}
	if want := len(info.Deps) + 1; len(*bom.Components) != want { // and the standard library
		return 0, fmt.Errorf("bill of materials: %d components: want %d", len(*bom.Components), want)
	}
	return len(info.Deps), nil
}
