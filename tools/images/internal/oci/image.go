package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// User is the numeric user and group that the program runs as. A number, so that a kubelet can see that it is not
// root (runAsNonRoot); this one by the convention of minimal images.
const User = 65532

// Program is the path of the program in the image.
const Program = "/berth"

// passwd names User, for programs that look their own name up.
var passwd = fmt.Sprintf("berth:x:%d:%d:berth:/:/sbin/nologin\n", User, User)

// Platform is one architecture's program.
type Platform struct {
	// Arch is Go's name of it, which is also OCI's.
	Arch string
	// File is the static program on this machine.
	File string
}

// Release holds the values that all images of one index share.
type Release struct {
	// Version is the text of the version label and of the index's reference.
	Version string
	// Created is the time in the images and of every file in them.
	Created time.Time
}

// labels are the annotations of the image specification that describe Berth.
func (r Release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "berth",
		"org.opencontainers.image.description": "Event-sourced scheduling control plane for Kubernetes",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/berth-scheduler/berth",
		"org.opencontainers.image.version":     r.Version,
		"org.opencontainers.image.created":     r.Created.UTC().Format(time.RFC3339),
	}
}

// image makes the image of one platform.
func (r Release) image(p Platform) (v1.Image, error) {
	content, err := r.layer(p)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
	)
	if err != nil {
		return nil, fmt.Errorf("layer of %s: %w", p.Arch, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: p.Arch, Created: v1.Time{Time: r.Created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", User, User), Entrypoint: []string{Program}, WorkingDir: "/", Labels: r.labels(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.Arch, err)
	}
	image, err = mutate.Append(image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.Created}, CreatedBy: "go build ./cmd/berth"},
	})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", p.Arch, err)
	}
	return mutate.Annotations(image, r.labels()).(v1.Image), nil
}

// layer is the image's only layer, uncompressed.
func (r Release) layer(p Platform) ([]byte, error) {
	program, err := os.ReadFile(p.File)
	if err != nil {
		return nil, fmt.Errorf("program for %s: %w", p.Arch, err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		header  tar.Header
		content []byte
	}{
		{tar.Header{Name: "berth", Mode: 0o555, Typeflag: tar.TypeReg}, program},
		{tar.Header{Name: "etc/", Mode: 0o755, Typeflag: tar.TypeDir}, nil},
		{tar.Header{Name: "etc/passwd", Mode: 0o444, Typeflag: tar.TypeReg}, []byte(passwd)},
	} {
		f.header.ModTime, f.header.Size, f.header.Format = r.Created, int64(len(f.content)), tar.FormatUSTAR
		if err := w.WriteHeader(&f.header); err != nil {
			return nil, fmt.Errorf("layer of %s: %s: %w", p.Arch, f.header.Name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("layer of %s: %s: %w", p.Arch, f.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("layer of %s: %w", p.Arch, err)
	}
	return out.Bytes(), nil
}
