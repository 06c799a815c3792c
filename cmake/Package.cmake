# make deb: what make install installs, as one Debian package.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME darkformer)
set(CPACK_PACKAGE_VENDOR "The darkformer developers")
set(CPACK_PACKAGE_CONTACT "The darkformer developers <darkformer@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "linear-time attention for pretrained Gemma models")
set(CPACK_PACKAGE_DESCRIPTION "Converts, finetunes, measures and runs Gemma models whose softmax attention is replaced by\n\
positive random features with learned covariance; with the op for C++ (libtorch)\nand Python (PyTorch).")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries' packages by dpkg-shlibdeps. C++ users need headers besides, Python users PyTorch.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-torch, python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, libtorch-dev, libprotobuf-dev, protobuf-compiler")
include(CPack)
