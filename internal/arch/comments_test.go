package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// packageComments wants every package to have a comment that begins "Package name";
// that of a program may begin as it likes.
func packageComments(s *source) {
	for _, files := range s.packages() {
		var said bool
		name := files[0].Name.Name
		for _, f := range files {
			text := f.Doc.Text()
			said = said || name == "main" && text != "" || strings.HasPrefix(text, "Package "+name+" ")
		}
		if said {
			continue
		}
		if name == "main" {
			s.report(files[0], files[0].Package, PackageComment, "the program has no package comment")
		} else {
			s.report(files[0], files[0].Package, PackageComment, "package %s has no package comment that begins \"Package %s \"", name, name)
		}
	}
}

// docComments wants a comment on whatever a package exports: types, functions,
// methods of exported types, methods of exported interfaces, and constants and
// variables, where one comment may speak for a group. Struct fields are left to
// judgement. Programs export nothing.
func docComments(s *source) {
	for _, f := range s.files {
		if f.test || f.Name.Name == "main" || ast.IsGenerated(f.File) {
			continue
		}
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				s.checkFunc(f, decl)
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					s.checkSpec(f, decl, spec)
				}
			}
		}
	}
}

func (s *source) undocumented(f *file, pos token.Pos, what, name string) {
	s.report(f, pos, DocComment, "%s %s has no doc comment", what, name)
}

func (s *source) checkFunc(f *file, decl *ast.FuncDecl) {
	if !decl.Name.IsExported() || said(decl.Doc) {
		return
	}
	if decl.Recv == nil {
		s.undocumented(f, decl.Pos(), "func", decl.Name.Name)
		return
	}
	if recv := receiver(decl.Recv.List[0].Type); ast.IsExported(recv) {
		s.undocumented(f, decl.Pos(), "method", recv+"."+decl.Name.Name)
	}
}

func (s *source) checkSpec(f *file, decl *ast.GenDecl, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return
		}
		// The comment of a group says what the types have in common, not what
		// each of them is.
		if !said(spec.Doc) && (decl.Lparen.IsValid() || !said(decl.Doc)) {
			s.undocumented(f, spec.Pos(), "type", spec.Name.Name)
		}
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, m := range i.Methods.List {
				if len(m.Names) == 1 && m.Names[0].IsExported() && !said(m.Doc) && !said(m.Comment) {
					s.undocumented(f, m.Pos(), "method", spec.Name.Name+"."+m.Names[0].Name)
				}
			}
		}
	case *ast.ValueSpec:
		if said(decl.Doc) || said(spec.Doc) || said(spec.Comment) {
			return
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				s.undocumented(f, name.Pos(), decl.Tok.String(), name.Name)
			}
		}
	}
}

// said reports whether a comment has text beyond directives.
func said(c *ast.CommentGroup) bool { return strings.TrimSpace(c.Text()) != "" }

// receiver returns the name of a receiver's type, whether it is a pointer, in
// parentheses or generic.
func receiver(t ast.Expr) string {
	for {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.ParenExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}
