# What `cmake --install` lays out, as two components: `program` runs jobs, `development` is for programs that link the
# libraries. Nothing of either refers to the source tree or to the prefix, so that a copy of the prefix works elsewhere.
include(CMakePackageConfigHelpers)

# ---- program -------------------------------------------------------------------------------------------
set(programs sluice)
if(SLUICE_TORCH)
  list(APPEND programs sluice-train)
endif()
install(TARGETS ${programs} RUNTIME COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

# The job scripts run the program that PATH names, where those of the source tree run its build.
file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/slurm/*.sbatch ${PROJECT_SOURCE_DIR}/slurm/*.sh)
foreach(script IN LISTS scripts)
  get_filename_component(name ${script} NAME)
  file(READ ${script} text)
  string(REPLACE "\${SLUICE:-build/release/bin/sluice}" "\${SLUICE:-sluice}" text "${text}")
  file(WRITE ${PROJECT_BINARY_DIR}/slurm/${name} "${text}")
  install(PROGRAMS ${PROJECT_BINARY_DIR}/slurm/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/slurm COMPONENT program)
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts})
install(FILES ${PROJECT_SOURCE_DIR}/slurm/README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/slurm COMPONENT program)

# ---- development ---------------------------------------------------------------------------------------
set(libraries sluice_options)
get_property(folders DIRECTORY ${PROJECT_SOURCE_DIR}/src PROPERTY SUBDIRECTORIES)
foreach(folder IN LISTS folders)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND libraries ${target})
    endif()
  endforeach()
endforeach()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Sluice)
install(TARGETS ${libraries} EXPORT SluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/sluice COMPONENT development)
install(EXPORT SluiceTargets NAMESPACE sluice:: DESTINATION ${package} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT development
  FILES_MATCHING PATTERN "*.hpp")
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/SluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/SluiceConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/SluiceConfig.cmake ${PROJECT_BINARY_DIR}/SluiceConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/SluiceDependencies.cmake ${CMAKE_CURRENT_LIST_DIR}/SluiceCuda.cmake
  DESTINATION ${package} COMPONENT development)

# ---- Debian packages -----------------------------------------------------------------------------------
# cpack -G DEB: sluice, and libsluice-dev with the libraries. What the programs link is found by dpkg-shlibdeps; what they start is
# named here.
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Sluice <sluice@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME sluice)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "openmpi-bin, libopenblas0-openmp")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "python3-jinja2, openssh-client")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libsluice-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Static libraries, headers and CMake's package of Sluice")
set(development libtorch-dev libopenmpi-dev libhdf5-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev
  libxxhash-dev libpcre2-dev libdnnl-dev libopenblas-dev)
list(JOIN development ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
include(CPack)
