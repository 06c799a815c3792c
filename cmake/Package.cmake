# make deb: what make install installs, as one Debian package.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME darkformer)
set(CPACK_PACKAGE_VENDOR "The darkformer developers")
# Who makes a package answers for it: -DCPACK_PACKAGE_CONTACT, or DEBFULLNAME and DEBEMAIL as Debian's own tools take them.
if(NOT CPACK_PACKAGE_CONTACT)
  if(DEFINED ENV{DEBEMAIL})
    set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
    string(STRIP "${CPACK_PACKAGE_CONTACT}" CPACK_PACKAGE_CONTACT)
  else()
    set(CPACK_PACKAGE_CONTACT "${CPACK_PACKAGE_VENDOR} <developers@darkformer.invalid>")  # .invalid: no such address, by RFC 2606
  endif()
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "linear-time attention for pretrained language models")
set(CPACK_PACKAGE_DESCRIPTION "Converts, finetunes, measures and runs Gemma, Llama, Mistral and Qwen models whose softmax attention is replaced by\n\
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
