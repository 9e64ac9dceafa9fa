# SPDX-License-Identifier: Apache-2.0
# nix-build packaging/nix: from this tree, with the packages of the system's nixpkgs.
{ pkgs ? import <nixpkgs> { } }:

let
  inherit (pkgs) lib stdenv;
  # The helpers are static: their libraries as archives, beside the shared ones.
  archive = package: package.overrideAttrs (old: {
    dontDisableStatic = true;
    configureFlags = (old.configureFlags or [ ]) ++ [ "--enable-static" ];
  });
in
stdenv.mkDerivation {
  pname = "koda-sandbox";
  version = "0.1.0";
  src = lib.cleanSource ../..;

  nativeBuildInputs = with pkgs; [ meson ninja pkg-config protobufc python3 libseccomp ];
  buildInputs = with pkgs; [
    (archive libsodium)
    (archive pcre2)
    (archive protobufc)
    c-ares
    jansson
    libev
    libseccomp
    openssl
    stdenv.cc.libc.static or glibc.static
  ];

  # The helpers are found at ../libexec/koda-sandbox beside the library and the program.
  mesonFlags = [ "--libdir=lib" "--libexecdir=libexec" "-Dtests=false" "-Dfuzz=off" ];
  # The host starts bubblewrap by its full name, and never by PATH.
  postPatch = ''
    patchShebangs tools
    substituteInPlace host/machine/helpers.c --replace \
      '"/usr/bin/bwrap"' '"${pkgs.bubblewrap}/bin/bwrap", "/usr/bin/bwrap"'
  '';

  meta = {
    description = "Sandbox for the file operations and commands of coding agents";
    license = lib.licenses.asl20;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "koda-sandbox";
  };
}
