package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	// goPackageRoot is the required prefix of each file's go_package; the rest must be the folder of the file, so
	// that generated code is never written away from its source.
	goPackageRoot = "github.com/berth-scheduler/berth/"
	// protoRoot is the folder, below the repository root, that is searched.
	protoRoot = "pkg"
	// rootFromHere leads from the folder of this module to the repository root.
	rootFromHere = "../.."
)

func main() {
	check := flag.Bool("check", false, "do not write; fail and list the stale files")
	root := flag.String("root", rootFromHere, "repository root")
	flag.Parse()
	if err := run(context.Background(), *root, *check, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run compiles every .proto file under root and writes, or with check compares, its code.
func run(ctx context.Context, root string, check bool, out io.Writer) error {
	files, err := find(root, ".proto")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no .proto file under %s", filepath.Join(root, protoRoot))
	}
	code, err := generate(ctx, root, files)
	if err != nil {
		return err
	}
	if check {
		return compare(root, code, out)
	}
	return write(root, code, out)
}

// find returns the paths of all files that end in suffix, relative to root, with slashes, in
// order.
func find(root, suffix string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(filepath.Join(root, protoRoot), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		relative, err := filepath.Rel(root, path)
		files = append(files, filepath.ToSlash(relative))
		return err
	})
	return files, err
}

// generate returns the generated files in the order of the sources, paths relative to root.
func generate(ctx context.Context, root string, files []string) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // carries the comments into the Go code
	}
	compiled, err := compiler.Compile(ctx, files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, file := range compiled {
		descriptor := protoutil.ProtoFromFileDescriptor(file)
		if err := checkGoPackage(descriptor); err != nil {
			return nil, err
		}
		request.ProtoFile = appendWithImports(request.ProtoFile, file, seen)
	}
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return nil, err
	}
	plugin.SupportedFeatures = gengo.SupportedFeatures
	plugin.SupportedEditionsMinimum = gengo.SupportedEditionsMinimum
	plugin.SupportedEditionsMaximum = gengo.SupportedEditionsMaximum
	for _, file := range plugin.Files {
		if file.Generate {
			gengo.GenerateFile(plugin, file)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response.File, nil
}

// appendWithImports appends file behind everything it imports: plugins want that order.
func appendWithImports(
	list []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return list
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		list = appendWithImports(list, imports.Get(i).FileDescriptor, seen)
	}
	return append(list, protoutil.ProtoFromFileDescriptor(file))
}

// checkGoPackage refuses a file whose go_package does not say where the file lies.
func checkGoPackage(file *descriptorpb.FileDescriptorProto) error {
	want := goPackageRoot + filepath.ToSlash(filepath.Dir(file.GetName()))
	got, _, _ := strings.Cut(file.GetOptions().GetGoPackage(), ";")
	if got != want {
		return fmt.Errorf("%s: option go_package is %q, want %q", file.GetName(), got, want)
	}
	return nil
}

// compare fails with the names of all files whose content differs from the generated one.
func compare(root string, code []*pluginpb.CodeGeneratorResponse_File, out io.Writer) error {
	var stale []string
	for _, file := range code {
		have, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file.GetName())))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if !bytes.Equal(have, []byte(file.GetContent())) {
			stale = append(stale, file.GetName())
		}
	}
	orphans, err := findOrphans(root, code)
	if err != nil {
		return err
	}
	if len(orphans) > 0 {
		return fmt.Errorf("generated, but its .proto file no longer exists: %s", strings.Join(orphans, ", "))
	}
	if len(stale) > 0 {
		return fmt.Errorf("stale, run GOWORK=off go run -C tools/protogen . : %s", strings.Join(stale, ", "))
	}
	_, err = fmt.Fprintf(out, "%d generated files are current\n", len(code))
	return err
}

// findOrphans returns the generated files that nothing generates any more.
func findOrphans(root string, code []*pluginpb.CodeGeneratorResponse_File) ([]string, error) {
	current := map[string]bool{}
	for _, file := range code {
		current[file.GetName()] = true
	}
	all, err := find(root, ".pb.go")
	return slices.DeleteFunc(all, func(name string) bool { return current[name] }), err
}

// write stores the generated files, touching only those that change.
func write(root string, code []*pluginpb.CodeGeneratorResponse_File, out io.Writer) error {
	for _, file := range code {
		path := filepath.Join(root, filepath.FromSlash(file.GetName()))
		have, err := os.ReadFile(path)
		if err == nil && bytes.Equal(have, []byte(file.GetContent())) {
			continue
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "wrote", file.GetName()); err != nil {
			return err
		}
	}
	return nil
}
