package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/berth-scheduler/berth/tools/images/internal/oci"
)

// Report holds the verified properties of one image.
type Report struct {
	Arch   string
	Digest v1.Hash
	// Bytes is the compressed size of the layer.
	Bytes int64
	// Modules is how many the bill of materials lists.
	Modules int
	// Output is the program's output; empty if this machine cannot run it.
	Output string
}

// Layout checks the layout in dir. The first promise that does not hold is the error.
func Layout(dir string) (v1.Hash, []Report, error) {
	if err := checkBlobs(dir); err != nil {
		return v1.Hash{}, nil, err
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		return v1.Hash{}, nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	top, err := path.ImageIndex()
	if err != nil {
		return v1.Hash{}, nil, err
	}
	entries, err := top.IndexManifest()
	if err != nil {
		return v1.Hash{}, nil, err
	}
	boms := map[v1.Hash]v1.Image{}
	var index *v1.Descriptor
	for i, d := range entries.Manifests {
		if d.MediaType.IsIndex() {
			index = &entries.Manifests[i]
			continue
		}
		artifact, err := top.Image(d.Digest)
		if err != nil {
			return v1.Hash{}, nil, err
		}
		m, err := artifact.Manifest()
		if err != nil {
			return v1.Hash{}, nil, err
		}
		if m.Subject == nil {
			return v1.Hash{}, nil, fmt.Errorf("layout %s: manifest %s has no subject", dir, d.Digest)
		}
		boms[m.Subject.Digest] = artifact
	}
	if index == nil {
		return v1.Hash{}, nil, fmt.Errorf("layout %s: no image index", dir)
	}
	images, err := top.ImageIndex(index.Digest)
	if err != nil {
		return v1.Hash{}, nil, err
	}
	if err := validate.Index(images); err != nil {
		return v1.Hash{}, nil, fmt.Errorf("layout %s: %w", dir, err)
	}
	reports, err := imagesOf(images, boms)
	return index.Digest, reports, err
}

// checkBlobs: a blob's name is its digest. The library compares them for images only.
func checkBlobs(dir string) error {
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil {
		return err
	}
	for _, path := range blobs {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		got, _, err := v1.SHA256(f)
		_ = f.Close() // only read
		if err != nil || got.Hex != filepath.Base(path) {
			return fmt.Errorf("blob %s has digest %s (%w)", path, got.Hex, err)
		}
	}
	return nil
}

// architectures that every release has.
var architectures = []string{"amd64", "arm64"}

func imagesOf(index v1.ImageIndex, boms map[v1.Hash]v1.Image) ([]Report, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	reports := make([]Report, 0, len(m.Manifests))
	seen := make([]string, 0, len(m.Manifests))
	for _, d := range m.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" {
			return nil, fmt.Errorf("image %s: platform %v: want linux", d.Digest, d.Platform)
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		r := Report{Arch: d.Platform.Architecture, Digest: d.Digest}
		if err := r.check(image, boms[d.Digest]); err != nil {
			return nil, fmt.Errorf("image for %s: %w", r.Arch, err)
		}
		reports, seen = append(reports, r), append(seen, r.Arch)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, architectures) {
		return nil, fmt.Errorf("index: images for %v: want %v", seen, architectures)
	}
	return reports, nil
}

func (r *Report) check(image, bom v1.Image) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if err := checkConfig(config, r.Arch); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	if len(layers) != 1 {
		return fmt.Errorf("%d layers: want 1", len(layers))
	}
	if r.Bytes, err = layers[0].Size(); err != nil {
		return err
	}
	files, err := unpack(layers[0])
	if err != nil {
		return err
	}
	if err := checkFiles(files); err != nil {
		return err
	}
	program := files[oci.Program[1:]].content
	if err := checkProgram(program, r.Arch); err != nil {
		return err
	}
	if r.Modules, err = checkBOM(bom, program); err != nil {
		return err
	}
	r.Output, err = run(files, r.Arch, config.Config.Labels["org.opencontainers.image.version"])
	return err
}

func checkConfig(config *v1.ConfigFile, arch string) error {
	want := fmt.Sprintf("%d:%d", oci.User, oci.User)
	switch {
	case config.Config.User != want:
		return fmt.Errorf("user %q: want %s", config.Config.User, want)
	case config.Architecture != arch || config.OS != "linux":
		return fmt.Errorf("config for %s/%s: want linux/%s", config.OS, config.Architecture, arch)
	case !slices.Equal(config.Config.Entrypoint, []string{oci.Program}):
		return fmt.Errorf("entrypoint %q: want %s", config.Config.Entrypoint, oci.Program)
	case config.Config.Labels["org.opencontainers.image.version"] == "":
		return fmt.Errorf("no version label")
	case len(config.Config.Env) > 0:
		return fmt.Errorf("environment %q: want none", config.Config.Env)
	}
	return nil
}
